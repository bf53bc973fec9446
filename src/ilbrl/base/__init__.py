"""What every room stands on: errors, files, records, progress, provenance, processes and how they are stopped."""
