"""The events of the log stream: one frozen class each, in one module for each subject."""
