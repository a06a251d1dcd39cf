"""The report: one self-contained page that says what an analysis has found."""
