// Package attacks repeats the attacks of a review on a whole installation with certificates. Each file has
// the attacks on one topic, made with the credential that the attacker had stolen.
//
// The promise: with the stolen certificate of a node, an attacker can harm the traffic of that node only,
// and with the certificate of a workload, that workload only.
package attacks
