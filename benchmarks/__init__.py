"""One script per published number; peers are measured in the same run."""
