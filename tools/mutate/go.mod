module portolan.dev/tools/mutate

go 1.26.0
