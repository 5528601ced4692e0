//go:build !linux

package audit_test

import "errors"

func makePipe(string) error { return errors.New("the test needs a named pipe of Linux") }
