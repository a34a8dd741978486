// Package pawl is the connection and the session of a lock and leader-election
// library on etcd, for programs that would lose data if two of them held one lock.
//
// A Client is a connection to one etcd cluster. A Session is a lease on it that
// is kept alive, and which any number of locks and elections share: package
// lock acquires locks on a client or a session, package elect campaigns on one. Every
// acquisition has a fencing token, greater than every earlier one of the name;
// package fencing and its guards let storage refuse an old one.
//
//	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	session, err := client.Session(ctx)
//	if err != nil {
//		return err
//	}
//	err = lock.New(session, "jobs/42", lock.Options{}).Do(ctx, work)
//
// # What it guarantees
//
//  1. What is held on a session becomes invalid before anybody else can acquire it:
//     validity counts from when the last confirmed renewal was sent, on a
//     clock that runs during suspend, and ends a sixth of the TTL early.
//  2. Session.Err compares the clock at the call; what has ended stays ended, with
//     one final cause: lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or
//     ErrClusterChanged.
//  3. One member's failure does not affect the others: each has a connection of its own,
//     and the next try uses another member.
//  4. A Client uses one cluster. It drops answers of another, and a
//     revision that goes back ends every session with ErrClusterChanged.
//  5. Every call returns within its context's end plus 100 ms, and even with
//     context.Background every request is bounded. What
//     cannot be removed at once is deleted in the background.
//
// # What it does not
//
// No client can rule out that an operator deletes a key, that the server
// revokes a living lease, that a restore takes the cluster back, that a machine
// is frozen together with its clocks, that two clocks' rates differ by more than
// the margin covers, or that a process is paused between its last check and its
// write. The fencing token covers all of these, if the storage checks it.
// etcd's grpc-proxy is not supported.
package pawl
