package supervise

const sharedClock = 3 // CLOCK_MONOTONIC in <time.h>

// waitContinued would have wait4 report a command that goes on. package unix reads no such status here.
const waitContinued = 0
