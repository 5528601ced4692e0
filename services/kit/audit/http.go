package audit

import "net/http"

// CodeOfHTTP returns the gRPC code with the meaning of an HTTP status code, because all lines have gRPC
// codes.
func CodeOfHTTP(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return "OK"
	case status == http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case status == http.StatusForbidden, status == http.StatusMisdirectedRequest:
		return "PERMISSION_DENIED"
	case status == http.StatusNotFound:
		return "NOT_FOUND"
	case status == http.StatusConflict:
		return "ABORTED"
	case status == http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case status < http.StatusInternalServerError:
		return "INVALID_ARGUMENT"
	}
	return "UNAVAILABLE"
}
