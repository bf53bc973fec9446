"""What every room stands on: errors, files, progress, provenance, processes."""
