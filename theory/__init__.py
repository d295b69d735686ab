"""Claims about semantic caches, each with the evidence that executes."""
