// Package attacks does to a whole installation with certificates what an attacker did in a review:
// each file has the attacks of one topic, made with the credential that the attacker had stolen.
//
// The promise that the tests hold: whoever has the certificate of one node harms that node's
// traffic and nothing else, and whoever has a workload's certificate harms that workload.
package attacks
