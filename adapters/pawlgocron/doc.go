// Package pawlgocron lets several schedulers of gocron v2 run each job once: one at a time by a
// Locker, or all on one leader by an Elector. It is a separate module, so that only its users
// depend on gocron.
//
//	locker := pawlgocron.NewLocker(client, pawlgocron.LockerOptions{AtLeast: 30 * time.Second})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// # Which of the two
//
// With a Locker the schedulers share the jobs, and each run is on any one of them. With an Elector
// one scheduler runs all jobs, and another takes over when that one dies. gocron calls either of
// them once, before a run.
//
// # What it guarantees
//
//  1. While a run lasts, and its lock is not lost, no other scheduler starts that job, however long
//     it takes, because the session is renewed, whatever its TTL.
//  2. With AtLeast, schedulers whose clocks differ by less than that run a job once for each
//     firing, however short it is.
//  3. An Elector reports that it leads only while its term's Err is nil at the call.
//
// # What it does not
//
// gocron does not report a lost lock or term to a run. A job that has to stop then uses
// Locker.Context or Elector.Context. Such a context ends at the loss and carries the fencing token,
// for storage that checks it. A run that is not started, because another scheduler has the lock, is
// skipped and not repeated later.
package pawlgocron
