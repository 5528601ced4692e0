package netfilter

// ListTables is the remedy of errors about tables.
const ListTables = "see what the kernel has: nft list ruleset"
