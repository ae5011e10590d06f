"""Files that outlive an allocation: device-info for CNI plugins, CDI specs for runtimes."""
