package etcdtest_test

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/test/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func ExampleStart() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()

	s := etcdtest.Start(t)
	kv := pb.NewKVClient(s.Conn(t))
	r, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("greeting"), Value: []byte("hello")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written at revision", r.Header.Revision)
	// Output: written at revision 2
}

// Without a test, as in a TestMain, where m.Run stands for what is done here.
func ExampleNew() {
	s, err := etcdtest.New(etcdtest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	ctx := context.Background()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: s.Endpoints()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	entry, err := client.KV().Get(ctx, "greeting")
	fmt.Println(entry.ModRevision, err)
	// Output: 0 <nil>
}

func ExampleServer_Counts() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()

	s := etcdtest.Start(t)
	kv := pb.NewKVClient(s.Conn(t))
	before, _ := s.Counts()
	for range 3 {
		_, _ = kv.Range(context.Background(), &pb.RangeRequest{Key: []byte("greeting")})
	}
	after, _ := s.Counts()
	fmt.Println(after.Since(before).Received)
	// Output: map[Range:3]
}

func ExampleStartCluster() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()

	c := etcdtest.StartCluster(t, 3)
	c.Leader(t).Kill() // the other two elect another one
	kv := pb.NewKVClient(c.Leader(t).Conn(t))
	r, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("greeting"), Value: []byte("hello")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written at revision", r.Header.Revision)
	// Output: written at revision 2
}

func ExampleCluster_MoveLeader() {
	t := exampletb.Begin() // in a test, this is the test's own t
	defer t.End()

	c := etcdtest.StartClusterWith(t, 3, etcdtest.ClusterOptions{Options: etcdtest.Options{ElectionTicks: 50}}) // nobody else is elected meanwhile
	next := c.Follower(t)
	c.MoveLeader(t, next)
	fmt.Println(c.Leader(t) == next)
	// Output: true
}
