"""THE loop and what it needs: configurations, networks and kernels, batches, memory, checkpoints, loggers."""
