// Package terms reads what people write about a workload: the service that it belongs to, its ports, when
// it is ready. Docker's labels and systemd's keys are two spellings of the same words, so that both
// sources accept the same values and report the same mistakes.
//
// A word that cannot be read is left out and reported; the workload is registered with the rest. Two
// words are different, because without them traffic would go where it should not: without a readable
// name of the service there is no workload, and with an unreadable check the workload is never ready.
package terms
