"""Files that outlast a command: run folders, written whole or not at all, and the identity of code and instances."""
