module example.org/skips

go 1.26.0
