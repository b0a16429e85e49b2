export * from "./errors.js";
export { VecallClient, UserMemory } from "./operations.js";
export * from "./response_errors.js";
