// Package pawlgocron lets several schedulers of gocron v2 run each job once: one at a time
// by a Locker, or all on one leader by an Elector. It is a module of its own, so that nobody
// who does not need it has gocron among the dependencies.
//
//	locker := pawlgocron.NewLocker(client, pawlgocron.LockerOptions{AtLeast: 30 * time.Second})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// # Which of the two
//
// With a Locker the schedulers share the jobs, each run of which is on any one of them. With
// an Elector one scheduler runs all jobs, and another goes on when that one dies. gocron asks
// either of them once, before a run.
//
// # What it guarantees
//
//  1. While a run goes on, and its lock is not lost, no other scheduler starts that job,
//     however long it takes: the session is renewed, whatever its TTL.
//  2. With AtLeast, schedulers whose clocks differ by less than that run a job once a firing,
//     however short it is.
//  3. An Elector says that it leads only while its term's Err is nil at the call.
//
// # What it does not
//
// gocron gives a run no word of a lost lock or term. A job that must stop then asks for it:
// Locker.Context and Elector.Context give it a context that ends at the loss and carries the
// fencing token, for storage that checks it. A run that was not started, because another
// scheduler has the lock, is skipped and not made up for.
package pawlgocron
