"""Soft hits: bounds and exact optima where several items can serve one step."""
