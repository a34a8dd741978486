//go:build !small

package main

import "github.com/pawl-locks/pawl/test/etcdtest/devserver"

// startEmbedded starts an etcd server for --embed. A build with the tag small cannot, and is 20
// MB smaller.
func startEmbedded() (endpoint string, stop func() error, err error) {
	s, err := devserver.Start(devserver.Options{Quick: true})
	if err != nil {
		return "", nil, err
	}
	return s.Endpoint, s.Close, nil
}
