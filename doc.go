// Package pawl is the connection and the session of a lock and leader-election
// library on etcd, for programs that would lose data if two of them held one lock.
//
// A Client is a connection to one etcd cluster. A Session is a lease on it that is kept alive, and that
// any number of locks and elections share. Package lock acquires locks on a client or a session, and
// package elect campaigns on one. Every acquisition has a fencing token, greater than that of every
// earlier exclusive holder of the name. Package fencing and its guards let storage refuse an old token.
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
//  1. What a session holds becomes invalid before anybody else can acquire it. Validity counts from
//     when the last confirmed renewal was sent, on a clock that runs during a suspend, and ends at
//     least a sixth of the TTL before the lease can.
//  2. Session.Err compares the clock at each call. What has ended stays ended, with one final cause:
//     lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, elect.ErrOverrun or ErrClusterChanged.
//  3. One member's failure does not affect the others, because each has a separate connection, and the
//     next try uses another member.
//  4. A Client uses one cluster. It drops answers of another, and if the revision goes back, every
//     session ends with ErrClusterChanged.
//  5. Every call returns at most 100 ms after the end of its context, and even with context.Background
//     every request has a time limit. What cannot be deleted at once is deleted in the background.
//
// # What it does not
//
// No client can rule out these events:
//
//   - An operator deletes a key, or the server revokes a living lease.
//   - A restore, or the loss of most members, takes the cluster back.
//   - A machine is frozen together with its clocks, or two clocks' rates differ by more than the
//     margin covers.
//   - A process is paused between its last check and its write.
//
// The fencing token covers all of these, if the storage checks it. etcd's grpc-proxy is not supported.
package pawl
