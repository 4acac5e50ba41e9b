//! The catalogue of counters, histograms and decaying rates.
