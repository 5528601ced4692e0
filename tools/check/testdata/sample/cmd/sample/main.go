// Command sample is checked by the test.
package main

import "example.com/sample/linked"

func main() { linked.Draw() }
