module portolan.dev/tools/testrun

go 1.26.0
