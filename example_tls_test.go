package pawl_test

import (
	"context"
	"log/slog"

	"github.com/pawl-locks/pawl"
)

func ExampleTLSFiles() {
	var (
		ctx       context.Context
		endpoints []string
	)
	connect := func() error {
		client, err := pawl.Dial(ctx, pawl.Config{
			Endpoints: endpoints,
			TLSFiles:  pawl.TLSFiles{CA: "/etc/etcd/ca.pem", Cert: "/etc/etcd/client.pem", Key: "/etc/etcd/client.key"},
			Logger:    slog.Default(),
		})
		if err != nil {
			return err
		}
		return client.Close()
	}
	_ = connect
}
