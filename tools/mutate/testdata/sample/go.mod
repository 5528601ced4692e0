module example.org/sample

go 1.26.0
