module example.org/flaky

go 1.26.0
