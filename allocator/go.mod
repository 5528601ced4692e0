module portolan.dev/allocator

go 1.26.0

require portolan.dev/proto v0.0.0

require portolan.dev/services v0.0.0

require (
	github.com/ncruces/go-sqlite3 v0.35.6 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace portolan.dev/proto => ../proto

replace portolan.dev/services => ../services
