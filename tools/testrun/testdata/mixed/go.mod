module example.org/mixed

go 1.26.0
