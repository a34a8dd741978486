//go:build small

package main

import "errors"

func startEmbedded() (string, func() error, error) {
	return "", nil, errors.New("this pawld was built without etcd (tag small)")
}
