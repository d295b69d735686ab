"""What the tests of the command line need of the process they run in."""

import signal

# Started in the background of a script, a process ignores Ctrl-C and so do its children; these tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
