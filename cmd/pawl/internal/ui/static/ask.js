// Requests that end. One that hangs, as behind a tunnel, or since the machine slept, would be the last one.

const WITHIN = 10_000;

// ask is fetch, of which the whole answer has to arrive within some time, in ms.
export const ask = (path, options = {}, within = WITHIN) => fetch(path, { ...options, signal: AbortSignal.timeout(within) });
