package pawl_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
)

// What a killed process held is free as soon as it is dead. Read docs/how-to/reclaim.md first.
func ExampleConfig_reclaimDir() {
	ctx, endpoints := context.Background(), []string{"etcd-0:2379", "etcd-1:2379", "etcd-2:2379"}
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: endpoints, ReclaimDir: "/run/worker/reclaim"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}
