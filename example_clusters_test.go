package pawl_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Each name is on one of two clusters; the program need not know on which.
func ExampleClusters() {
	t := exampletb.Begin()
	defer t.End()
	ctx := context.Background()

	clusters, err := pawl.NewClusters(map[string]*pawl.Client{ // in a program, pawl.Dial gives each
		"north": pawltest.New(t).Client(t, pawl.Config{}),
		"south": pawltest.New(t).Client(t, pawl.Config{}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer clusters.Close()
	for _, name := range []string{"mail", "report", "import"} {
		err := lock.New(clusters.For(name), name, lock.Options{}).Do(ctx, func(ctx context.Context, h *lock.Held) error {
			fmt.Println(h.Name(), "is held on", clusters.Label(name))
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// mail is held on south
	// report is held on north
	// import is held on north
}
