package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// shardsOf is pawl's choice among n clusters, which exist only in memory.
func shardsOf(n int) (s *pawl.Clusters, closeAll func(), err error) {
	clients := map[string]*pawl.Client{}
	var fakes []*etcdfake.Cluster
	closeAll = func() {
		for _, c := range clients {
			_ = c.Close()
		}
		for _, f := range fakes {
			f.Close()
		}
	}
	for i := range n {
		fake := etcdfake.New(etcdfake.Options{})
		fakes = append(fakes, fake)
		c, err := pawl.Dial(context.Background(), pawl.Config{
			Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()},
		})
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients[fmt.Sprintf("cluster-%02d", i+1)] = c
	}
	if s, err = pawl.NewClusters(clients); err != nil {
		closeAll()
	}
	return s, closeAll, err
}
