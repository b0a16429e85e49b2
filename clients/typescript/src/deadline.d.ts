/** Aborts a request when its caller does, or when its time is over. */
export class Deadline {
    /**
     * @param {AbortSignal | undefined} signal
     * @param {number} timeoutMs
     */
    constructor(signal: AbortSignal | undefined, timeoutMs: number);
    get signal(): AbortSignal;
    /** The time that is left, in milliseconds. */
    get left(): number;
    /** Begin the time again. */
    restart(): void;
    /** Stop the time. */
    pause(): void;
    /** @param {unknown} [reason] */
    abort(reason?: unknown): void;
    /** Forget the signal and the timer of the caller. */
    close(): void;
    /**
     * Wait for a promise, unless the request is aborted before.
     *
     * @template T
     * @param {Promise<T>} promise
     * @returns {Promise<T>}
     */
    race<T>(promise: Promise<T>): Promise<T>;
    /**
     * Wait for a time, unless the request is aborted before.
     *
     * @param {number} ms
     * @returns {Promise<void>}
     */
    sleep(ms: number): Promise<void>;
    #private;
}
