# Starting another program, for server/spawn.py. What the system offers besides stands in posix.pxd.
cdef extern from "<spawn.h>" nogil:
    ctypedef struct posix_spawn_file_actions_t:
        pass
    ctypedef struct posix_spawnattr_t:
        pass
    enum:
        POSIX_SPAWN_SETPGROUP
    int posix_spawn(
        int *pid, const char *path, posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
        char **arguments, char **environment
    )
    int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions)
    int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions)
    int posix_spawn_file_actions_addopen(
        posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, unsigned int mode
    )
    int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new_fd)
    int posix_spawnattr_init(posix_spawnattr_t *attributes)
    int posix_spawnattr_destroy(posix_spawnattr_t *attributes)
    int posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags)
