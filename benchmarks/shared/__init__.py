"""What the benchmarks share: tables of data, clocks, stored records, and pages that they fill in."""
