"""Time, memory and file size of MemoryService."""
