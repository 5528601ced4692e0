// Package bench measures the allocator: the time of an allocation in pools that are empty, half full and
// nearly full, the time that a batch saves, and the memory that values take. It is run by
// make bench-allocator. Both sides of each ratio are measured in turns.
package bench
