// Package bench measures the allocator: what an allocation costs in pools that are empty, half full
// and nearly full, what a batch saves, and how much memory values take. It is run by
// make bench-allocator. Both sides of each ratio are measured in turns.
package bench
