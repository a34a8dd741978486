package supervise

const sharedClock = 3 // CLOCK_MONOTONIC in <time.h>

// waitContinued would make wait4 report a command that continues. Package unix reads no such status
// here.
const waitContinued = 0
