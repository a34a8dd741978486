// Package wire is the text form of a resource and its token, as httpfence and grpcfence send it: "57 jobs%2F42", the token in decimal, a space, the resource
// percent-encoded. There is one spelling of each pair, and Parse takes no other, so that two headers joined by a proxy, or one cut
// short of its resource, are found out.
package wire

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-locks/pawl/fencing"
)

// ErrGarbled is the error of Parse.
var ErrGarbled = errors.New("not of the form TOKEN SPACE RESOURCE, as in \"57 jobs%2F42\"")

// Format returns the text of a resource and token that fencing.Check accepts.
func Format(resource string, t fencing.Token) string {
	return strconv.FormatInt(int64(t), 10) + " " + url.PathEscape(resource)
}

// Parse returns what Format was given, or ErrGarbled.
func Parse(text string) (resource string, t fencing.Token, err error) {
	digits, escaped, _ := strings.Cut(text, " ")
	n, err1 := strconv.ParseInt(digits, 10, 64)
	resource, err2 := url.PathUnescape(escaped)
	t = fencing.Token(n)
	if err1 != nil || err2 != nil || fencing.Check(resource, t) != nil || Format(resource, t) != text {
		return "", 0, ErrGarbled
	}
	return resource, t, nil
}
