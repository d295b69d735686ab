"""A certificate is a file with a schedule and prices; a checker without any solver proves its numbers."""

from offline_opt.certificate.checker import Verdict, check
from offline_opt.certificate.format import Certificate, read_certificate, write_certificate
from offline_opt.certificate.make import certify, check_certificate, make_certificate

__all__ = [
    "Certificate",
    "Verdict",
    "certify",
    "check",
    "check_certificate",
    "make_certificate",
    "read_certificate",
    "write_certificate",
]
