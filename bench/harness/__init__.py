"""What the benchmarks of whole servers share: servers, load, figures, pages, plots."""
