"""The memory hierarchy at work: a demo agent, what it reads, and its runs told and explained."""
