package trial

// caseSuffix follows the id of a case in the name of its file.
const caseSuffix = ".json"
