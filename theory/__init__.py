"""Claims about semantic caches, each with the evidence that executes.

Here live the registry of claims (statement, variant, source, status, scope) and, for each row, the code
that checks it together with a mutant under which the check must fail. What is not in the registry is not
claimed by the project.
"""
