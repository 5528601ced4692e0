package netfilter

// ListTables is the remedy of errors about tables. nft 1.0.6 aborts when it lists tables or the
// ruleset beside rules of ours; it can list sets and maps.
const ListTables = "see what the kernel has: nft list sets; nft list maps"
