module example.org/fuzzy

go 1.26.0
